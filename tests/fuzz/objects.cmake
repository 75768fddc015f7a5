exechost_fuzz(objects USES objects
    DECODES store/objects/answer.c)
