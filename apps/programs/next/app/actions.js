'use server';
import { redirect } from 'next/navigation';

export async function greet(form) {
  redirect('/greeted?name=' + encodeURIComponent(form.get('name')));
}
