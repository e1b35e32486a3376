package hostpath

// LayerDirs returns the directories that the options of an overlay name.
func LayerDirs(options string) []string { return layerDirs(options) }
