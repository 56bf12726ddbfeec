"""What is wrong on this machine, and what to do about it: `attnx doctor`."""
