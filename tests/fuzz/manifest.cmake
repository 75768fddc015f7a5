exechost_fuzz(manifest USES workspace
    DECODES workspace/manifest.c
    WITHOUT put_* workspace_manifest_encode)
