package server

import (
	"fmt"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"haft"
)

// The closed sets of the vocabulary, as the document shows them and as requests are
// held against them. The root knows nothing of documents, so that each set has a
// type here that stands for it.
type (
	kindSchema     string
	statusSchema   string
	codeSchema     string
	ruleSchema     string
	onErrorSchema  string
	severitySchema string
	levelSchema    string
	outputSchema   string
	strategySchema string
)

func (kindSchema) Schema(huma.Registry) *huma.Schema     { return enum(append(haft.Kinds(), "")) } // "" is of a tool that has no version yet
func (statusSchema) Schema(huma.Registry) *huma.Schema   { return enum(haft.Statuses()) }
func (codeSchema) Schema(huma.Registry) *huma.Schema     { return enum(haft.Codes()) }
func (ruleSchema) Schema(huma.Registry) *huma.Schema     { return enum(haft.RuleTypes()) }
func (severitySchema) Schema(huma.Registry) *huma.Schema { return enum(haft.Severities()) }
func (levelSchema) Schema(huma.Registry) *huma.Schema    { return enum(append(haft.Levels(), "")) } // "" is of what never ran
func (outputSchema) Schema(huma.Registry) *huma.Schema   { return enum(haft.OutputTypes()) }
func (onErrorSchema) Schema(huma.Registry) *huma.Schema {
	return enum([]haft.OnError{haft.OnErrorStop, haft.OnErrorContinue, haft.OnErrorSkip})
}
func (strategySchema) Schema(huma.Registry) *huma.Schema {
	return enum([]haft.Strategy{haft.Constant, haft.Exponential, haft.Jitter})
}

// enum describes one of several texts.
func enum[T ~string](all []T) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeString}
	for _, one := range all {
		s.Enum = append(s.Enum, fmt.Sprint(one))
	}
	return s
}

// registry makes what describes types.
func registry() huma.Registry {
	r := huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)
	for from, to := range map[reflect.Type]reflect.Type{
		reflect.TypeFor[haft.Millis]():     reflect.TypeFor[float64](),
		reflect.TypeFor[haft.Kind]():       reflect.TypeFor[kindSchema](),
		reflect.TypeFor[haft.Status]():     reflect.TypeFor[statusSchema](),
		reflect.TypeFor[haft.Code]():       reflect.TypeFor[codeSchema](),
		reflect.TypeFor[haft.RuleType]():   reflect.TypeFor[ruleSchema](),
		reflect.TypeFor[haft.OnError]():    reflect.TypeFor[onErrorSchema](),
		reflect.TypeFor[haft.Severity]():   reflect.TypeFor[severitySchema](),
		reflect.TypeFor[haft.Level]():      reflect.TypeFor[levelSchema](),
		reflect.TypeFor[haft.OutputType](): reflect.TypeFor[outputSchema](),
		reflect.TypeFor[haft.Strategy]():   reflect.TypeFor[strategySchema](),
	} {
		r.RegisterTypeAlias(from, to)
	}
	return r
}
