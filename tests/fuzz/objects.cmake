exechost_fuzz(objects USES objects)
