exechost_fuzz(ptc_json USES ptc)
exechost_fuzz(ptc_frames USES ptc)
exechost_fuzz(run_left USES run_left ptc base)
