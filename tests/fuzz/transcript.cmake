exechost_fuzz(transcript USES store
    DECODES store/transcript_format.c store/transcript_reader.c
    WITHOUT store_transcript_open_at store_transcript_file_size transcript_path)
