"""Changed rows between two instants, with images before and after."""
