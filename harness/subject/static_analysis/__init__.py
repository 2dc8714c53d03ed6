"""What does the text of a sink's own code say?

Which of its statements calls can lead to, which numbers and names it has, where it reads clocks, sets expiries, maps
files into memory, or gives up after a number of tries. Nothing is executed.
May import: chaos; of subject only what names the files of users.
"""
