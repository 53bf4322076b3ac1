"""Grades of rule outcomes: the recordings that would disagree if an outcome were different."""
