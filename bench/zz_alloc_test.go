package bench

import (
	"context"
	"os"
	"strconv"
	"testing"
	"fmt"
	"cmp"
)

func TestTurnAlloc(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("CH"))
	layers, _ := strconv.Atoi(cmp.Or(os.Getenv("LAYERS"), "5"))
	c := turnCase{name: "x", messages: 200, layers: layers, changing: cmp.Or(n, 1), bolt: os.Getenv("BOLT") != "", turns: 2000}
	r := NewReport("turn")
	if err := c.run(context.Background(), r); err != nil {
		t.Fatal(err)
	}
	for _, f := range r.Rows {
		fmt.Println(f)
	}
}
