"""What makes two inputs similar."""
