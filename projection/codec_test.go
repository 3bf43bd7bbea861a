package projection_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stratamem/strata/projection"
)

// fill gives every field of a struct a value of its own, texts with tail behind.
func fill(t *testing.T, v reflect.Value, tail string) {
	t.Helper()
	for i := range v.NumField() {
		f, name := v.Field(i), v.Type().Field(i).Name
		switch f.Interface().(type) {
		case time.Time:
			f.Set(reflect.ValueOf(time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)))
			continue
		case []byte:
			f.SetBytes([]byte(name))
			continue
		}
		switch f.Kind() {
		case reflect.String:
			f.SetString(name + " of \"it\"\n\x01é" + tail)
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Slice:
			f.Set(reflect.MakeSlice(f.Type(), 2, 2))
			for j := range 2 {
				if e := f.Index(j); e.Kind() == reflect.Struct {
					fill(t, e, tail)
				} else {
					e.SetString(fmt.Sprint(name, j, tail))
				}
			}
		default:
			t.Fatalf("field %s is a %s, which this test does not know how to fill", name, f.Kind())
		}
	}
}

func filled(t *testing.T, tail string) projection.Item {
	var it projection.Item
	fill(t, reflect.ValueOf(&it).Elem(), tail)
	return it
}

// eachField calls f with the path of every field, slices' elements included, and a
// copy of a filled item whose field it may change.
func eachField(t *testing.T, f func(path string, it *projection.Item, field reflect.Value)) {
	t.Helper()
	kind := reflect.TypeFor[projection.Item]()
	for i := range kind.NumField() {
		it := filled(t, "")
		f(kind.Field(i).Name, &it, reflect.ValueOf(&it).Elem().Field(i))
	}
	part := reflect.TypeFor[projection.Part]()
	for i := range part.NumField() {
		it := filled(t, "")
		f("Parts."+part.Field(i).Name, &it, reflect.ValueOf(&it.Parts[1]).Elem().Field(i))
	}
}

// TestItemCarriesEveryField: a field that is added to Item or Part is encoded,
// compared and repaired, or this fails.
func TestItemCarriesEveryField(t *testing.T) {
	it := filled(t, "")
	var back projection.Item
	if err := json.Unmarshal(it.AppendJSON(nil), &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(it, back); diff != "" {
		t.Errorf("encoded and decoded (-was +is):\n%s", diff)
	}
	other := filled(t, "")
	if !it.Equal(&other) {
		t.Error("two items with the same fields are not equal")
	}
	eachField(t, func(path string, changed *projection.Item, field reflect.Value) {
		field.SetZero()
		if it.Equal(changed) {
			t.Errorf("items that differ in %s are equal", path)
		}
		var back projection.Item
		if err := json.Unmarshal(changed.AppendJSON(nil), &back); err != nil {
			t.Fatal(err)
		}
		if !back.Equal(changed) {
			t.Errorf("without %s: decoded as %+v", path, back)
		}
	})
	// The words of ours are checked by Validate instead.
	ours := map[string]bool{"Kind": true, "Role": true, "Action": true, "Parts.Type": true}
	eachField(t, func(path string, broken *projection.Item, field reflect.Value) {
		switch {
		case ours[path]:
			return
		case field.Kind() == reflect.String:
			field.SetString("\xffx")
		case field.Type() == reflect.TypeFor[[]string]():
			field.Index(1).SetString("\xffx")
		default:
			return
		}
		shared := *broken
		if n := broken.Repair(); n != 1 || strings.Contains(fmt.Sprintf("%+v", *broken), "\xff") {
			t.Errorf("%s is not repaired: %d texts were", path, n)
		}
		if (path == "Refs" || strings.HasPrefix(path, "Parts.")) && !strings.Contains(fmt.Sprintf("%+v", shared), "\xff") {
			t.Errorf("%s was repaired where others share it", path)
		}
	})
}

func TestItemValidate(t *testing.T) {
	good := []projection.Item{
		user("u"), assistant("a"), projection.Call("1", "f", "{}"), projection.Result("1", "r"), projection.Thought("t"),
		projection.Text(projection.System, ""), projection.Text(projection.Developer, ""),
		{Kind: projection.Message, Role: projection.User, Parts: []projection.Part{{Type: projection.ImagePart}, {Type: projection.FilePart}}},
		{Kind: projection.Reasoning, Time: time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)},
	}
	for i := range good {
		if err := good[i].Validate(); err != nil {
			t.Errorf("item %d: %v", i, err)
		}
	}
	for want, it := range map[string]projection.Item{
		`kind "" is none of message, tool_call, tool_result, reasoning`: {},
		`role "wizard" is none of system, developer, user, assistant`:   projection.Text("wizard", "hi"),
		`part type "sound" is none of text, image, file`:                {Kind: projection.ToolResult, Parts: []projection.Part{{Type: "sound"}}},
		`time has the year 10000`:                                       {Kind: projection.Reasoning, Time: time.Date(9999, 12, 31, 23, 0, 0, 0, time.FixedZone("", -5*3600))},
	} {
		if err := it.Validate(); err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}
