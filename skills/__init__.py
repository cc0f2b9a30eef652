"""Expert knowledge as folders of Markdown and tested kernels, and their loader."""
