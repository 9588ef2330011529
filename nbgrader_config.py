"""How nbgrader works on this course: its own commands, `make release` and `make grade` alike."""

c = get_config()

c.CourseDirectory.course_id = "attentively"
c.CourseDirectory.source_directory = "solutions"
c.CourseDirectory.release_directory = "exercises"

# An unsolved part raises, so it scores 0; the checks know this exception when it is bare.
c.ClearSolutions.code_stub = {
    "python": "raise NotImplementedError  # replace this line with your code"
}

# nbgrader copies every file that stands beside a notebook, be it a solution in Markdown. Here a
# side file is released only if it is listed: {"08_additive_attention": ["data.csv"]}.
c.Release.side_files = {}
c.GenerateAssignment.post_convert_hook = "attentively_grader.course.release.tidy_released"

# The checks read the cases and answers of an assignment here. Only the trusted process gets them.
c.Grading.test_files = ["questions.py"]
# The checks that the notebooks import lie here: where these folders change, all is graded anew.
c.Grading.depends_on = ["src"]

# For a cell that does not end; the parts after it are graded all the same.
c.Execute.timeout = 120
# Only the kernel's own errors on the terminal, not that it speaks to this machine unencrypted.
c.Execute.extra_arguments = ["--log-level=40"]

# nbgrader takes points away for any text on stderr, so for a warning too. An error is recorded
# as an error in any case, so what stands on stderr is dropped before scores are read.
c.IgnorePattern.enabled = True
c.IgnorePattern.pattern = "^"
