exechost_fuzz(http USES http)
