exechost_fuzz(http USES http
    DECODES server/http/uri.c server/http/range.c)
