"""Every stored reply and verdict, asked of the package ``proactivebench`` again."""
