exechost_fuzz(files USES docker host)
