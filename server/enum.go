package server

import (
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"haft"
)

// enumOf describes a type of package haft with a fixed list of values. Package haft knows
// nothing of OpenAPI, so that enumOf replaces its types in the document.
type enumOf[T ~string] string

// Schema implements huma.SchemaProvider.
func (enumOf[T]) Schema(huma.Registry) *huma.Schema {
	var zero T
	switch any(zero).(type) {
	case haft.Kind:
		return enum(append(haft.Kinds(), "")) // "" is of a tool that has no version yet
	case haft.Level:
		return enum(append(haft.Levels(), "")) // "" is of what never ran
	case haft.Status:
		return enum(haft.Statuses())
	case haft.Code:
		return enum(haft.Codes())
	case haft.RuleType:
		return enum(haft.RuleTypes())
	case haft.MCPTransport:
		return enum(append(haft.MCPTransports(), "")) // "" is for the server to guess
	case haft.SandboxType:
		return enum(haft.SandboxTypes())
	case haft.ApprovalState:
		return enum(haft.ApprovalStates())
	case haft.EventType:
		return enum(haft.EventTypes())
	case haft.Severity:
		return enum(haft.Severities())
	case haft.OutputType:
		return enum(haft.OutputTypes())
	case haft.OnError:
		return enum([]haft.OnError{haft.OnErrorStop, haft.OnErrorContinue, haft.OnErrorSkip})
	case haft.MessageRole:
		return enum([]haft.MessageRole{haft.RoleUser, haft.RoleAssistant, haft.RoleTool, haft.RoleSummary})
	case haft.TurnStatus:
		return enum([]haft.TurnStatus{haft.TurnRunning, haft.TurnWaiting, haft.TurnCompleted, haft.TurnFailed,
			haft.TurnCancelled})
	case haft.Strategy:
		return enum([]haft.Strategy{haft.Constant, haft.Exponential, haft.Jitter})
	}
	return &huma.Schema{Type: huma.TypeString}
}

// enum describes one of several texts.
func enum[T ~string](all []T) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeString}
	for _, one := range all {
		s.Enum = append(s.Enum, string(one))
	}
	return s
}

// aliasEnum lets enumOf describe a type.
func aliasEnum[T ~string](r huma.Registry) {
	r.RegisterTypeAlias(reflect.TypeFor[T](), reflect.TypeFor[enumOf[T]]())
}

// registry makes what describes types.
func registry() huma.Registry {
	r := huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)
	r.RegisterTypeAlias(reflect.TypeFor[haft.Millis](), reflect.TypeFor[float64]())
	aliasEnum[haft.Kind](r)
	aliasEnum[haft.Level](r)
	aliasEnum[haft.Status](r)
	aliasEnum[haft.Code](r)
	aliasEnum[haft.RuleType](r)
	aliasEnum[haft.SandboxType](r)
	aliasEnum[haft.ApprovalState](r)
	aliasEnum[haft.EventType](r)
	aliasEnum[haft.Severity](r)
	aliasEnum[haft.MCPTransport](r)
	aliasEnum[haft.OutputType](r)
	aliasEnum[haft.OnError](r)
	aliasEnum[haft.Strategy](r)
	aliasEnum[haft.MessageRole](r)
	aliasEnum[haft.TurnStatus](r)
	return r
}
