exechost_module(native_images
    SOURCES images.c image_config.c image_manifest.c image_record.c image_stream.c image_source.c
            image_layer.c image_tree.c image_store.c image_import.c image_fetch.c
    USES base host workspace
    LINK PkgConfig::archive PkgConfig::jansson Threads::Threads)
