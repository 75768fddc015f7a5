exechost_fuzz(request USES api)
