"""What runs inside a sandbox: standard library, torch and the kernel languages only."""
