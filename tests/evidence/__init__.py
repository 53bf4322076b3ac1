"""Grades of the outcomes of rules: which recording would disagree if one of them were another?"""
