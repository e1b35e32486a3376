package model

import (
	"encoding/json"
	"net/url"
	"strings"
)

// geminiEndpoint returns the path for a model.
func geminiEndpoint(model string) string {
	if !strings.Contains(model, "/") {
		model = "models/" + model
	}
	parts := strings.Split(model, "/")
	for i, p := range parts {
		if parts[i] = url.PathEscape(p); p == "." || p == ".." {
			parts[i] = "_" // no way to another path
		}
	}
	return "/" + strings.Join(parts, "/") + ":streamGenerateContent?alt=sse"
}

// foreignSignature is what Gemini 3 takes for a call that was made by another model. It refuses the first call of a
// message without any signature.
const foreignSignature = "skip_thought_signature_validator"

// renderGemini writes a request of generateContent.
func renderGemini(r *rendering) object {
	text := func(s string) any { return object{"text": s} }
	said := func(t turn) []any { return geminiParts(t, r.Model) }
	answer := func(c call) any {
		key := "result"
		if c.failed {
			key = "error"
		}
		fields := object{"response": object{key: c.answer}}
		if len(c.images) > 0 && nestsImages(r.Model) {
			fields["parts"] = geminiImages(c)
		}
		return object{"functionResponse": geminiFunction(c, fields)}
	}
	beside := func(t turn) []any { return imagesBeside(t, r.Model) }
	contents := []any{}
	for _, m := range alternating(r.history, "model", text, said, answer, beside) {
		contents = append(contents, object{"role": m.role, "parts": m.parts})
	}
	body := object{"contents": contents}
	if r.System != "" {
		body["systemInstruction"] = object{"parts": []any{text(r.System)}}
	}
	if r.MaxOutput > 0 {
		body["generationConfig"] = object{"maxOutputTokens": r.MaxOutput}
	}
	if r.tools == nil {
		return body
	}
	body["tools"] = r.tools
	config := object{}
	switch r.Choice {
	case "", ChoiceAuto:
		return body
	case ChoiceRequired:
		config["mode"] = "ANY"
	case ChoiceNone:
		config["mode"] = "NONE"
	default:
		config["mode"], config["allowedFunctionNames"] = "ANY", []string{r.Choice}
	}
	body["toolConfig"] = object{"functionCallingConfig": config}
	return body
}

// geminiParts writes what a model said.
func geminiParts(t turn, model string) []any {
	parts, signed := []any{}, false
	for _, p := range t.pieces {
		part := object{}
		switch {
		case p.Text:
			part["text"] = t.text
		case p.Call > 0:
			c := t.calls[p.Call-1]
			part["functionCall"] = geminiFunction(c, object{"args": c.args})
			if p.Raw == nil && !signed && !strings.HasPrefix(model, "gemini-2") {
				part["thoughtSignature"] = foreignSignature
			}
			signed = true
		default:
			continue
		}
		if p.Raw != nil {
			part["thoughtSignature"] = p.Raw
		}
		parts = append(parts, part)
	}
	return parts
}

// geminiFunction adds the name of a call, and its id if a model gave it one.
func geminiFunction(c call, fields object) object {
	if fields["name"] = c.name; !strings.HasPrefix(c.id, madeID) {
		fields["id"] = c.id
	}
	return fields
}

// readGemini reads the stream of generateContent.
func readGemini(b *builder) func(*value) (bool, error) {
	return func(e *value) (bool, error) {
		if u := e.at("usageMetadata"); u.present() { // every chunk has the sum so far
			b.usage = Usage{u.count("promptTokenCount") + u.count("toolUsePromptTokenCount"),
				u.count("candidatesTokenCount") + u.count("thoughtsTokenCount"), u.count("cachedContentTokenCount")}
		}
		if e.text("promptFeedback", "blockReason") != "" {
			b.stop, b.complete = StopFiltered, true
		}
		for _, c := range e.list("candidates") {
			if c.count("index") != 0 {
				continue
			}
			for _, p := range c.list("content", "parts") {
				if err := b.geminiPart(p); err != nil {
					return false, err
				}
			}
			if reason := c.text("finishReason"); reason != "" {
				b.complete = true
				if err := b.geminiStop(reason); err != nil {
					return false, err
				}
			}
		}
		return false, nil
	}
}

// geminiPart adds a part. Calls are whole.
func (b *builder) geminiPart(p *value) error {
	var signature json.RawMessage
	if p.text("thoughtSignature") != "" {
		signature = p.at("thoughtSignature").raw
	}
	if f := p.at("functionCall"); f.present() {
		c, err := b.beginCall(f.text("id"), f.text("name"))
		if err != nil {
			return err
		}
		if err := b.setRaw(&b.pieces[c.piece], signature); err != nil {
			return err
		}
		return b.addArguments(c, f.at("args").textOrJSON())
	}
	if string(p.at("thought").raw) == "true" {
		return b.addReasoning(p.text("text"))
	}
	if signature != nil {
		if err := b.setRaw(b.textPiece(), signature); err != nil { // the last part may be a signature alone
			return err
		}
	}
	return b.addText(p.text("text"))
}

// geminiStop notes why the answer ends.
func (b *builder) geminiStop(reason string) error {
	switch reason {
	case "STOP", "FINISH_REASON_UNSPECIFIED":
	case "MAX_TOKENS":
		b.stop = StopLength
	case "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MALFORMED_RESPONSE",
		"MISSING_THOUGHT_SIGNATURE":
		return invalidAnswer("has a call that its vendor could not read")
	case "OTHER", "NO_IMAGE":
		if b.text.Len() == 0 && len(b.calls) == 0 {
			return invalidAnswer("ended without a reason")
		}
	default: // SAFETY, RECITATION, LANGUAGE, BLOCKLIST, PROHIBITED_CONTENT, SPII and those to come
		b.stop = StopFiltered
	}
	return nil
}
