package modelapi

import (
	"strings"

	"haft/schema"
)

// detect finds the format of what a model answered by its shape. Whatever holds a
// call, or is a whole answer, has one format for certain. A part of an answer that is
// only text may be of two vendors, and either will do: nothing is to be answered.
func detect(root node) (schema.Form, error) {
	var form schema.Form
	var err error
	switch {
	case root.is('{'):
		var o object
		if o, err = root.object(); err == nil {
			form, err = formOfObject(o)
		}
	case root.is('['):
		form, err = formOfList(root)
	}
	if err != nil {
		return "", err
	}
	if form == "" {
		return "", invalid("", "its format is not known; it is none of OpenAI's Chat Completions and Responses, "+
			"Anthropic's Messages and Gemini's generateContent")
	}
	return form, nil
}

// formOfObject finds the format of a whole answer, or of one part of it.
func formOfObject(o object) (schema.Form, error) {
	if isStreamEvent(o) {
		return "", errStreamed(o.at)
	}
	content := o.field("content")
	switch {
	case o.has("choices"), o.has("tool_calls"), o.field("message").is('{'):
		return schema.FormOpenAI, nil
	case o.has("candidates"), o.has("parts"), content.is('{'):
		return schema.FormGemini, nil
	case o.word("object") == "response", o.field("output").is('['):
		return schema.FormOpenAIResponses, nil
	case content.is('['):
		form, err := formOfList(content)
		if form == "" && err == nil {
			form = schema.FormOpenAI
			if o.word("type") == "message" {
				form = schema.FormAnthropic
			}
		}
		return form, err
	case o.word("role") == "assistant":
		return schema.FormOpenAI, nil
	case o.has("promptFeedback", "prompt_feedback"):
		return schema.FormGemini, nil // nothing but why there is no candidate
	}
	return formOfElement(o)
}

// formOfList finds the format of a list by the first element that has one.
func formOfList(n node) (schema.Form, error) {
	all, err := n.list()
	if err != nil {
		return "", err
	}
	for _, e := range all {
		if !e.is('{') {
			return "", nil
		}
		o, err := e.object()
		if err != nil {
			return "", err
		}
		if isStreamEvent(o) || o.has("candidates") || o.has("choices") {
			return "", errStreamed(o.at)
		}
		if form, err := formOfElement(o); form != "" || err != nil {
			return form, err
		}
	}
	return "", nil
}

// formOfElement finds the format of a call, a block, an item or a part.
func formOfElement(o object) (schema.Form, error) {
	switch t := o.word("type"); {
	case t == "function" || t == "custom" || t == "" && o.field("function").is('{'):
		return schema.FormOpenAI, nil
	case t == "function_call" || t == "custom_tool_call" || t == "reasoning" || t == "message" || t == "output_text",
		strings.HasSuffix(t, "_call"):
		return schema.FormOpenAIResponses, nil
	case t == "tool_use" || t == "thinking" || t == "redacted_thinking" || t == "server_tool_use",
		t == "text" && !o.field("text").is('{'), strings.HasSuffix(t, "_tool_result"):
		return schema.FormAnthropic, nil
	case t != "":
		return "", nil
	}
	call := o.field("functionCall", "function_call")
	switch {
	case call.is('{') && !o.has("functionCall"):
		c, err := call.object()
		if err == nil && c.has("arguments") {
			return schema.FormOpenAI, nil // a message with nothing else
		}
		return schema.FormGemini, err
	case call.is('{'), o.has("text", "inlineData", "executableCode"):
		return schema.FormGemini, nil
	}
	return "", nil
}

// isStreamEvent reports whether o is an event or a delta of a stream.
func isStreamEvent(o object) bool {
	t := o.word("type")
	return o.word("object") == "chat.completion.chunk" || o.has("delta") ||
		strings.HasPrefix(t, "response.") || strings.HasPrefix(t, "content_block_") ||
		t == "message_start" || t == "message_delta" || t == "message_stop" || t == "ping"
}
