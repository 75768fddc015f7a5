exechost_fuzz(ptc_json USES ptc
    DECODES ptc/json.c)
exechost_fuzz(ptc_frames USES ptc
    DECODES ptc/frames.c ptc/ledger.c
    WITHOUT ptc_sending_*)
exechost_fuzz(run_left USES run_left ptc base
    DECODES server/events/run_left.c)
