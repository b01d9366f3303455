"""What people use instead, run as their own documentation or common practice has it. Nothing of this package in here."""
