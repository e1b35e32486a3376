// Package modelapi speaks the formats of the model vendors: it turns what a model
// answered into calls, results into the messages to append, and tools into the
// list that a request to a model carries. It is pure: it runs and keeps nothing.
//
//	the vendor's answer  ── Parse ──▶  Request{Form, Calls}
//	                                      │  the caller runs the calls
//	messages to append  ◀── Render ──  []*haft.Result
//
// The formats are those [schema.Form] names, and every call is answered in the one
// that it came in, under its own id, in the order of the calls:
//
//	openai            Chat Completions: a response, a choice, a message, a list of
//	                  tool_calls, or the older function_call
//	                  → [{"role":"tool","tool_call_id","content"}, …]
//	openai-responses  Responses: a response, or a list of output items
//	                  → [{"type":"function_call_output","call_id","output"}, …]
//	anthropic         Messages: a message, or its content
//	                  → {"role":"user","content":[{"type":"tool_result", …}, …]}
//	gemini            generateContent: a response, a candidate, its content or parts
//	                  → {"role":"user","parts":[{"functionResponse": …}, …]}
//
// Fields that are not known are passed over, and null is the same as absent. Pieces
// of a stream are refused: the reader of the stream has to put them together first,
// which every vendor's SDK does.
//
// # What a model gets
//
// A value that is a string stands as it is, any other as compact JSON; in Gemini's
// format, which takes JSON, it stays what it is unless it nests too deep for it. The output
// of a tool is sent only where there is no value: a successful call that gave null is
// answered with its stdout, a failed one also with the ends of stdout and stderr. A failure has its
// kind and message, the places that do not fit, the tool's own traceback, and
// whether trying again can help. Calls that wait, for a person or for their turn,
// are reported as that, and are no errors.
//
// What was cut says so. Files are shown as the format's own parts where it has
// them and the vendor takes them: images (PNG, JPEG, GIF, WebP) and PDF documents
// everywhere but in Chat Completions, whose tool messages are text. What a file
// is, is read from its first bytes and not from what the tool says of it, because
// a vendor refuses the whole request for one image of another type. Short texts
// are put into the text in every format. Other files are named.
package modelapi
