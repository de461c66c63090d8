// Package gen generates invoices
package gen
