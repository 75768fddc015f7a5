exechost_fuzz(request USES api
    DECODES api/checkpoint.c api/command.c api/execution.c api/image.c api/json.c api/signal.c
    WITHOUT encode_* api_*_encode api_*_encode_* join dump_* api_json_text)
