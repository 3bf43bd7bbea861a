package source

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
)

// golang divides a Go file into blocks, one per declaration with the comments
// before it. It is false if the file does not parse.
func golang(lines []line) ([]block, bool) {
	var b strings.Builder
	for i := range lines {
		b.WriteString(lines[i].text)
	}
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, "", b.String(), parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, false
	}
	end := func(n ast.Node) int { return min(files.PositionFor(n.End(), false).Line, len(lines)) }
	list := []block{{level: 1, title: "package " + f.Name.Name, to: end(f.Name)}}
	for _, d := range f.Decls {
		last := &list[len(list)-1]
		next := block{from: last.to, to: end(d), name: declared(d)}
		switch g, ok := d.(*ast.GenDecl); {
		case next.to == next.from: // on the same line as the one before
			continue
		case ok && g.Tok == token.IMPORT:
			last.to = next.to
			continue
		}
		next.parts = afterBlank(lines, next.from, next.to)
		list = append(list, next)
	}
	list[len(list)-1].to = len(lines) // comments at the end
	list[0].parts = afterBlank(lines, 0, list[0].to)
	return list, true
}

// declared returns the names that a declaration declares.
func declared(d ast.Decl) string {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv != nil && len(d.Recv.List) > 0 {
			return "func (" + receiver(d.Recv.List[0].Type) + ") " + d.Name.Name
		}
		return "func " + d.Name.Name
	case *ast.GenDecl:
		var names []string
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				names = append(names, s.Name.Name)
			case *ast.ValueSpec:
				for _, n := range s.Names {
					names = append(names, n.Name)
				}
			}
		}
		if len(names) > 3 {
			names = append(names[:3], "…")
		}
		return d.Tok.String() + " " + strings.Join(names, ", ")
	}
	return ""
}

// receiver returns the name of a method's type.
func receiver(e ast.Expr) string {
	for {
		switch x := e.(type) {
		case *ast.StarExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.IndexListExpr:
			e = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

// indented divides code in any language into blocks: a block begins at an
// unindented line after an empty one.
func indented(lines []line) []block {
	var list []block
	from := 0
	emit := func(to int) {
		if to > from {
			list = append(list, block{from: from, to: to, parts: afterBlank(lines, from, to)})
			from = to
		}
	}
	for i := 1; i < len(lines); i++ {
		if c := lines[i].text[0]; lines[i-1].blank() && c != ' ' && c != '\t' && !lines[i].blank() {
			emit(i)
		}
	}
	emit(len(lines))
	return list
}
