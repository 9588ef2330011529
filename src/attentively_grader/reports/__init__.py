"""Reports: feedback for students, summaries for instructors, grade sheets."""
