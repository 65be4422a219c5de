"""The stateless operators, which process each record by itself."""
