"""Where results go beside the files of a job."""
