// Package telemetry makes measures and spans of what the engine tells.
//
// [Telemetry] is an [engine.Observer]: it is told of every call and every stage,
// counts them by tool, organisation and outcome for Prometheus, and makes a span
// of each for OpenTelemetry, which continues the trace that the call came with.
// It sees no arguments and no values: an observer is given calls without them.
//
// What is counted is bounded. Only tools that were found in the registry of the
// caller's organisation become labels; whatever else callers name is counted as
// "unknown". When there are too many organisations and tools, further ones are counted
// together as "other": one organisation has an eighth at most, and every one a few.
package telemetry
