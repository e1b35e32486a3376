// Package schemacase makes arguments from the schema of a tool: those that a model might send, the
// right ones, the extremes, the wrong ones, the hostile ones and those that are not even JSON.
//
// The same schema and seed always make the same cases. [Shrink] looks for the smallest arguments
// with which a tool still fails.
package schemacase
