// Package chain decides which step of a chain of calls is next. It is pure: it runs
// nothing, keeps nothing and knows no clock. [Compile] checks a plan, and
// [Program.Next] is a function of the state of the chain. So after a crash a chain
// continues from the state that was stored.
//
//	plan:  {"input": {"city": "Oslo"}, "steps": [
//	  {"id": "find", "tool": "search", "args": {"q": {"$from": "input/city"}}},
//	  {"id": "tell", "tool": "send", "if": "steps.find.value.total > 0",
//	   "args": {"text": {"$from": "find.value/items/0/title", "default": "nothing"}}}]}
//
// # References
//
// Within the arguments of a step, an object with the key $from is replaced by
//
//	input, input/PTR              the input of the plan, or a part of it
//	STEP.value, STEP.value/PTR    what a step gave
//	STEP.error, STEP.error/PTR    its failure: kind, message and so on
//	STEP.status                   the status of its call
//	STEP.stdout, STEP.stderr      what it printed, as a text
//
// where PTR is a JSON Pointer (RFC 6901) without its first slash. The arguments
// may be such an object as a whole. Beside $from only the key default may stand,
// whose value is taken, as it is, where there is nothing to refer to: the pointer
// leads nowhere, or the step was skipped or failed. Without a default, a pointer
// that leads nowhere fails the step before its call is made.
//
// {"$literal": X} stands for X, in which nothing is replaced.
//
// Nothing is put into texts. An argument is data: a value from one tool goes as a
// whole into the place that the plan names, and can add neither an argument nor
// a reference, whatever it holds.
//
// # Order
//
// A step begins when all steps have ended that its arguments, its condition and
// its list after name. Steps that do not wait for each other begin together. They
// may be listed in any order; a circle is refused.
//
// # Conditions
//
// If is an expression in CEL (https://cel.dev) over input and, for each step,
//
//	steps.ID.state     "done" or "skipped"
//	steps.ID.status    the status of its call, "" if it was skipped
//	steps.ID.value     what it gave, null if it did not succeed
//	steps.ID.error     its failure, or null
//
// If it is false the step is skipped. If it cannot be evaluated the step fails
// without a call.
//
// # Failure
//
// A step that failed is dealt with by its on_error:
//
//	stop      no other step begins. Those that run are awaited, and the chain
//	          ends with error, or with cancelled if the call was.
//	continue  the chain goes on, and the step's value is null.
//	skip      steps that name it, in whatever way, are skipped, and those that
//	          name them. Others go on.
//
// A chain whose failures were all dealt with by continue or skip is a success. A
// step that may or may not have run is never repeated, and the chain
// stops as unknown unless its on_error is continue.
//
// A step that was skipped because of its condition skips those whose arguments
// refer to it without a default. Those that only wait for it, or ask for its
// state in their condition, go on.
package chain
