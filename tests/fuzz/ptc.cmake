exechost_fuzz(ptc_json USES ptc)
exechost_fuzz(ptc_frames USES ptc)
