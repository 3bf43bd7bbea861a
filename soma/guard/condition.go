package guard

import (
	"errors"
	"fmt"
	"reflect"
	"regexp/syntax"
	"slices"
	"strings"
	"time"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/vm"
)

// Limits of a condition; the package comment gives the reasons.
const (
	maxCondition = 4096 // bytes
	maxNodes     = 256  // of the syntax tree
	maxPattern   = 512  // bytes of a regular expression
	maxProgram   = 500  // instructions of all regular expressions together
	maxOver      = 24 * time.Hour
	defaultOver  = time.Hour
)

// Names with a space cannot be written in a condition. scopeName is a variable,
// the *scope; the others are functions of it.
const (
	scopeName  = " scope"
	argsName   = " args"
	listName   = " list"
	numberName = " number"
)

var (
	operators = []string{
		"and", "&&", "or", "||", "==", "!=", "<", "<=", ">", ">=", "+", "-", "*", "in", "??",
		"contains", "startsWith", "endsWith", "matches",
	}
	subjects  = []string{"agent", "tool", "node", "call", "all"}
	variables = []string{"agent", "team", "tool", "weekday", "args"}
)

// options are the language as the library has to know it.
func options() []expr.Option {
	return []expr.Option{
		expr.Env(new(scope{call: new(Call)}).env()),
		expr.Optimize(false), // it makes "in" an error for a value of another type
		expr.MaxNodes(maxNodes),
		expr.DisableIfOperator(),
		// Their names are functions of the language.
		expr.DisableBuiltin("count"),
		expr.Function("count", nil, new(func(string) float64)),
		expr.Function(argsName, func(params ...any) (any, error) {
			return params[0].(*scope).arguments()
		}, new(func(*scope) map[string]any)),
		expr.Function(listName, func(params ...any) (any, error) {
			list, ok := params[1].([]any)
			if !ok {
				return nil, errors.New("any, all and none require lists")
			}
			return list, nil
		}, new(func(*scope, any) []any)),
		expr.Function(numberName, func(params ...any) (any, error) {
			return params[1].(*number).value(params[0].(*scope))
		}, new(func(*scope, *number) float64)),
		expr.Patch(rewriter{}),
	}
}

// compile compiles a condition. It does not panic and is quick on any text:
// what could take long is refused before the library sees it.
func compile(condition string) (program *vm.Program, err error) {
	defer func() {
		if r := recover(); r != nil {
			program, err = nil, fmt.Errorf("the condition is beyond the library: %v", r)
		}
	}()
	if strings.TrimSpace(condition) == "" {
		return nil, errors.New("the condition is empty")
	}
	if len(condition) > maxCondition {
		return nil, fmt.Errorf("the condition has %d bytes, more than %d", len(condition), maxCondition)
	}
	opts := options()
	config := conf.CreateNew()
	for _, o := range opts {
		o(config)
	}
	tree, err := parser.ParseWithConfig(condition, config)
	if err != nil {
		return nil, placed(err)
	}
	var c checker
	if err := c.check(tree.Node, false); err != nil {
		return nil, placed(err.Bind(tree.Source))
	}
	program, err = expr.Compile(condition, opts...)
	if err != nil {
		return nil, placed(err)
	}
	// A value of args may be true or false; whether it is, only the call shows.
	if t := program.Node().Type(); t.Kind() != reflect.Bool && t.Kind() != reflect.Interface {
		return nil, fmt.Errorf("the condition is a %v, not true or false", t)
	}
	return program, nil
}

// run evaluates a condition.
func run(machine *vm.VM, program *vm.Program, env map[string]any) (holds bool, err error) {
	defer func() {
		if r := recover(); r != nil {
			holds, err = false, fmt.Errorf("evaluation stopped: %v", r)
		}
	}()
	v, err := machine.Run(program, env)
	if at, ok := errors.AsType[*file.Error](err); ok {
		at.Message = plain(at.Message)
	}
	if err != nil {
		return false, placed(err)
	}
	holds, ok := v.(bool)
	if !ok {
		return false, errors.New("the condition is neither true nor false")
	}
	return holds, nil
}

// plain rewrites messages of evaluation that are Go's, or quote a value.
func plain(message string) string {
	if strings.HasPrefix(message, "interface conversion") || strings.HasPrefix(message, "reflect") {
		return "a value is missing, or of a type that the operator is not for"
	}
	if strings.HasPrefix(message, "cannot fetch ") {
		return "cannot fetch a member" + message[max(0, strings.LastIndex(message, " from ")):]
	}
	return message
}

// placed writes an error of the library as line:column: message, without the
// lines of the condition.
func placed(err error) error {
	at, ok := errors.AsType[*file.Error](err)
	if !ok {
		return err
	}
	return fmt.Errorf("%d:%d: %s", at.Line, at.Column+1, strings.ReplaceAll(at.Message, "interface {}", "any"))
}

// checker admits the syntax that the package comment describes. The library
// knows more; of that, loops in loops, the building of texts and variables that
// double them would make evaluation slow.
type checker struct {
	program int // instructions of regular expressions
}

func refuse(n ast.Node, format string, args ...any) *file.Error {
	return &file.Error{Location: n.Location(), Message: fmt.Sprintf(format, args...)}
}

// check says why a tree is not of the language; inside is whether it is the
// second argument of any, all or none.
func (c *checker) check(n ast.Node, inside bool) *file.Error {
	switch n := n.(type) {
	case *ast.NilNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.StringNode:
		return nil
	case *ast.IdentifierNode:
		if inside {
			return refuse(n, "inside any, all and none there are only # and literals")
		}
		if _, err := numberOf(n); err != nil && !slices.Contains(variables, n.Value) {
			return refuse(n, "unknown name %s", n.Value)
		}
		return nil
	case *ast.PointerNode:
		if n.Name != "" {
			return refuse(n, "unknown name #%s", n.Name)
		}
		return nil
	case *ast.UnaryNode:
		return c.check(n.Node, inside)
	case *ast.BinaryNode:
		return c.binary(n, inside)
	case *ast.ChainNode:
		return c.check(n.Node, inside)
	case *ast.MemberNode:
		if id, ok := n.Node.(*ast.IdentifierNode); ok && id.Value == "node" && !inside {
			return c.check(n.Property, inside)
		}
		return c.all(inside, n.Node, n.Property)
	case *ast.ArrayNode:
		return c.all(inside, n.Nodes...)
	case *ast.BuiltinNode:
		switch n.Name {
		case "len", "lower", "trim":
			return c.all(inside, n.Arguments...)
		case "any", "all", "none":
			if inside {
				return refuse(n, "%s inside any, all or none", n.Name)
			}
			if err := c.check(n.Arguments[0], false); err != nil {
				return err
			}
			if p, ok := n.Arguments[1].(*ast.PredicateNode); ok {
				return c.check(p.Node, true)
			}
		}
		return refuse(n, "unknown function %s", n.Name)
	case *ast.CallNode:
		if inside {
			return refuse(n, "inside any, all and none there are only # and literals")
		}
		if _, err := numberOf(n); err != nil {
			return refuse(n, "%v", err)
		}
		return nil
	}
	return refuse(n, "this is not part of the language")
}

func (c *checker) all(inside bool, nodes ...ast.Node) *file.Error {
	for _, n := range nodes {
		if err := c.check(n, inside); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) binary(n *ast.BinaryNode, inside bool) *file.Error {
	switch {
	case n.Operator == "/" || n.Operator == "%":
		return refuse(n, "there is no division: compare products, a > 2 * b")
	case !slices.Contains(operators, n.Operator):
		return refuse(n, "unknown operator %s", n.Operator)
	case n.Operator == "matches":
		pattern, ok := n.Right.(*ast.StringNode)
		if !ok {
			return refuse(n, "the right side of matches is a literal")
		}
		if err := c.pattern(pattern.Value); err != nil {
			return refuse(pattern, "%v", err)
		}
	}
	return c.all(inside, n.Left, n.Right)
}

func (c *checker) pattern(text string) error {
	if len(text) > maxPattern {
		return fmt.Errorf("the regular expression has %d bytes, more than %d", len(text), maxPattern)
	}
	re, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return err
	}
	program, err := syntax.Compile(re.Simplify())
	if err != nil {
		return err
	}
	if c.program += len(program.Inst); c.program > maxProgram {
		return fmt.Errorf("the regular expressions have more than %d instructions", maxProgram)
	}
	return nil
}

// number is a numeric variable, or a call of a function with its arguments.
type number struct {
	text string // as in the condition
	of   func(*scope) (float64, error)
}

func (n *number) value(s *scope) (float64, error) {
	v, err := n.of(s)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", n.text, err)
	}
	if r := (reading{n.text, v}); !slices.Contains(s.read, r) {
		s.read = append(s.read, r)
	}
	return v, nil
}

// numberOf returns the number that a variable or a call stands for.
func numberOf(n ast.Node) (*number, error) {
	if id, ok := n.(*ast.IdentifierNode); ok {
		return variable(id.Value)
	}
	call := n.(*ast.CallNode)
	callee, ok := call.Callee.(*ast.IdentifierNode)
	if !ok {
		return nil, errors.New("this is no function")
	}
	name := callee.Value
	most := 1
	switch name {
	case "rate", "count":
		most = 2
	case "streak", "counter":
	default:
		return nil, fmt.Errorf("unknown function %s", name)
	}
	if len(call.Arguments) < 1 || len(call.Arguments) > most {
		return nil, fmt.Errorf("%s has %d arguments, wants 1 to %d", name, len(call.Arguments), most)
	}
	var args [2]string
	for i, a := range call.Arguments {
		literal, ok := a.(*ast.StringNode)
		if !ok {
			return nil, fmt.Errorf("the arguments of %s are literal texts", name)
		}
		args[i] = literal.Value
	}
	text := fmt.Sprintf("%s(%q)", name, args[0])
	if name == "counter" {
		return &number{text, func(s *scope) (float64, error) { return s.counter(args[0]) }}, nil
	}
	if !slices.Contains(subjects, args[0]) {
		return nil, fmt.Errorf("the first argument of %s is one of %s", name, strings.Join(subjects, ", "))
	}
	over := defaultOver
	if len(call.Arguments) == 2 {
		var err error
		over, err = time.ParseDuration(args[1])
		if err != nil || over < time.Second || over > maxOver {
			return nil, fmt.Errorf(`the second argument of %s is a time from "1s" to "24h"`, name)
		}
		text = fmt.Sprintf("%s(%q, %q)", name, args[0], args[1])
	}
	return &number{text, func(s *scope) (float64, error) {
		t, err := s.tally(args[0], over)
		switch {
		case err != nil:
			return 0, err
		case name == "count":
			return float64(t.Calls), nil
		case name == "streak":
			return float64(t.Streak), nil
		}
		return float64(t.Failures) / float64(max(t.Finished, t.Failures, 1)), nil
	}}, nil
}

func variable(name string) (*number, error) {
	n := &number{text: name}
	switch name {
	case "attempt":
		n.of = func(s *scope) (float64, error) { return float64(max(s.call.Attempt, 1)), nil }
	case "cost":
		n.of = func(s *scope) (float64, error) { return s.call.Cost, finite(s.call.Cost) }
	case "tokens":
		n.of = func(s *scope) (float64, error) { return float64(s.call.Tokens), nil }
	case "hour":
		n.of = func(s *scope) (float64, error) { return float64(s.call.Time.Hour()), nil }
	default:
		return nil, fmt.Errorf("unknown name %s", name)
	}
	return n, nil
}

// rewriter replaces what the checker has admitted and the library cannot know.
type rewriter struct{}

func (rewriter) Visit(n *ast.Node) {
	switch node := (*n).(type) {
	case *ast.IdentifierNode:
		if node.Value == "args" {
			ast.Patch(n, hidden(argsName))
		} else if v, err := variable(node.Value); err == nil {
			ast.Patch(n, hidden(numberName, &ast.ConstantNode{Value: v}))
		}
	case *ast.CallNode:
		if v, err := numberOf(node); err == nil {
			ast.Patch(n, hidden(numberName, &ast.ConstantNode{Value: v}))
		}
	case *ast.BuiltinNode:
		// Of a value whose type only the call shows, the library's any, all and
		// none take a text for a list.
		if slices.Contains([]string{"any", "all", "none"}, node.Name) && node.Arguments[0].Type().Kind() == reflect.Interface {
			node.Arguments[0] = hidden(listName, node.Arguments[0])
		}
	case *ast.BinaryNode:
		// The library's + joins texts too, and a condition must not build texts.
		if node.Operator == "+" {
			ast.Patch(n, &ast.BinaryNode{Operator: "-", Left: node.Left, Right: &ast.UnaryNode{Operator: "-", Node: node.Right}})
		}
	}
}

// hidden returns a call of a function that conditions cannot name.
func hidden(name string, args ...ast.Node) ast.Node {
	return &ast.CallNode{
		Callee:    &ast.IdentifierNode{Value: name},
		Arguments: slices.Concat([]ast.Node{&ast.IdentifierNode{Value: scopeName}}, args),
	}
}
