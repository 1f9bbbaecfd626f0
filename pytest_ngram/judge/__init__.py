"""What the gates decide from what servers answered. Pure: it knows no server and opens no file."""
