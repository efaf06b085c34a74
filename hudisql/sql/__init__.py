"""From SQL text to typed statements to plans to results."""
