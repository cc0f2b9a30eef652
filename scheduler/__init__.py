"""Who gets the device, when, for how long, and proof that nothing was lost."""
