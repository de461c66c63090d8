// Package gen generates reports
package gen
