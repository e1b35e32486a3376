// Package model asks language models, in four formats: OpenAI's Chat Completions and Responses, Anthropic's Messages
// and Gemini's generateContent. Every answer is streamed.
//
//	Request{Messages, Tools}  ── history ──▶  turns ── render ──▶  the vendor's request
//	                                                                     │ HTTP
//	Answer{Text, Calls}       ◀── builder ──  events ◀── readEvents ──  the vendor's stream
//
// A conversation is made acceptable before it is sent, whatever happened to it: every call has exactly one answer,
// right after the message that asks for it; roles alternate where the vendor wants that; names and ids have a form that
// the vendor takes; nothing is empty. So an interrupted turn, a summary, or a change of the vendor never blocks a
// conversation.
//
// Images of answers to calls are sent where the vendor documents them: within the answer, for Gemini before version 3
// beside it, and in Chat Completions, whose messages of tools are text, in a message of the user behind the answers.
//
// What comes back is bounded before it is kept: lines, events, texts, calls, arguments and the stream as a whole. An
// error is a [*Fault], which says whether another try can help, unless ctx ended or the caller's own HTTP client or key
// source failed. This package never tries again by itself.
package model
