"""What an edge may weigh beside attention: a file each. They know the values that are carried, or the answer."""
