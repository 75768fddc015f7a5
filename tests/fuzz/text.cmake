exechost_fuzz(text USES api)
exechost_fuzz(policy USES policy)
