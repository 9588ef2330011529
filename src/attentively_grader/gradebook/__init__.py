"""The gradebook: record outcomes and make recorded output safe to display."""
