package letta

import "haft"

// ToolID is toolID.
func ToolID(id haft.ToolID) string { return toolID(id) }

// ReadToolID is readID of a tool.
func ReadToolID(s string) (string, bool, error) { return readID(toolWord, toolPrefix, s) }

// PythonText is pythonText.
func PythonText(s string) string { return pythonText([]byte(s)) }
