//! Symmetric positive-definite systems, small ones.

/// The lower triangle L of a matrix that is L times its transpose; `None` if it is not positive
/// definite.
pub fn cholesky(matrix: &[Vec<f64>]) -> Option<Vec<Vec<f64>>> {
    let size = matrix.len();
    let mut lower = vec![vec![0.0; size]; size];
    for row in 0..size {
        for column in 0..=row {
            let both = lower[row].iter().zip(&lower[column]).take(column);
            let rest = matrix[row][column] - both.map(|(a, b)| a * b).sum::<f64>();
            if row == column {
                if rest <= 0.0 || !rest.is_finite() {
                    return None;
                }
                lower[row][row] = rest.sqrt();
            } else {
                lower[row][column] = rest / lower[column][column];
            }
        }
    }
    Some(lower)
}

/// Solves for x, given L: L times its transpose times x is `right`.
pub fn solve(lower: &[Vec<f64>], right: &[f64]) -> Vec<f64> {
    let mut x = right.to_vec();
    for row in 0..x.len() {
        let known = (0..row).map(|column| lower[row][column] * x[column]).sum::<f64>();
        x[row] = (x[row] - known) / lower[row][row];
    }
    solve_transposed(lower, &x)
}

/// Solves for x: the transpose of L times x is `right`.
pub fn solve_transposed(lower: &[Vec<f64>], right: &[f64]) -> Vec<f64> {
    let mut x = right.to_vec();
    for row in (0..x.len()).rev() {
        let known = (row + 1..x.len()).map(|below| lower[below][row] * x[below]).sum::<f64>();
        x[row] = (x[row] - known) / lower[row][row];
    }
    x
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_is_solved_and_one_that_is_not_positive_is_none() {
        let matrix = vec![vec![4.0, 2.0, 0.6], vec![2.0, 5.0, 1.0], vec![0.6, 1.0, 3.0]];
        let lower = cholesky(&matrix).expect("positive definite");
        let x = solve(&lower, &[1.0, -2.0, 0.5]);
        for (row, expected) in matrix.iter().zip([1.0, -2.0, 0.5]) {
            let found: f64 = row.iter().zip(&x).map(|(a, b)| a * b).sum();
            assert!((found - expected).abs() < 1e-12, "{found}");
        }
        assert!(cholesky(&[vec![1.0, 2.0], vec![2.0, 1.0]]).is_none());
    }
}
