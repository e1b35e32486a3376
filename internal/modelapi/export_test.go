package modelapi

import "haft/schema"

// Forms lists the formats in which models answer.
func Forms() []schema.Form {
	return []schema.Form{schema.FormOpenAI, schema.FormOpenAIResponses, schema.FormAnthropic, schema.FormGemini}
}

// Detect finds the format of an answer.
func Detect(raw []byte) (schema.Form, error) {
	root, err := read(raw)
	if err != nil {
		return "", err
	}
	return detect(root)
}
