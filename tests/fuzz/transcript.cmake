exechost_fuzz(transcript USES store)
